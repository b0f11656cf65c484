"""Who may use the service: tokens stored hashed, sessions of browsers, and a limit on wrong attempts."""
