"""The protocol between agents and server: messages, their encoding and cost, coins, and the interfaces."""
