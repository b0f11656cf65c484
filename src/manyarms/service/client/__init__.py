"""The client of the service: a campaign at a URL, with the methods of a campaign in a file."""
