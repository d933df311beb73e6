"""The hands: start, watch and stop model servers, and see to it that none outlives us."""
