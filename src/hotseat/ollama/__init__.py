"""PURE: Ollama's API in terms of OpenAI's: requests, responses and names."""
