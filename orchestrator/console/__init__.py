"""The console: a few pages, rendered here, over what the API stands on. All that a model, a tool or a user wrote is hostile."""
