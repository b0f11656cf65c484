"""What agents and server exchange: messages, their bytes and cost, private coins, the two state machines."""
