"""`ctable`: tables of compressed columns."""
