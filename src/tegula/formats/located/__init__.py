"""Large documents whose members are located and not parsed, and changed in place."""
