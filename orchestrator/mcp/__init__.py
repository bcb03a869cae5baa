"""Tools of MCP servers (extra `[mcp]`): foreign processes and services, offered to runs under names `mcp__SERVER__TOOL`.

What a server says is hostile until checked: its descriptions and schemas (`schema`, `listing`), its results (`result`), its
staying power (`connection`). `servers.open_servers` is the door; but for `schema`, by which a person's edit is checked too, nothing here is
imported unless the settings name a server.
"""
