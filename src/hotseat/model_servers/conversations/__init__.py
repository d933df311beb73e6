"""What llama-servers have computed of conversations: saved before they stop, restored after they start."""
