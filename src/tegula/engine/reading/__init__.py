"""Reading and writing the elements of an array with an executor."""
