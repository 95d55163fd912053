"""The hierarchy: groups, and opening, creating, copying and saving nodes by target."""
