"""The subcommands of `regard`, a file each: `add` puts one into the parser; what it needs is imported when it runs."""
