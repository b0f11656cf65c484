"""The pages of the service: the list of campaigns, and one campaign live, with the acts of a day."""
