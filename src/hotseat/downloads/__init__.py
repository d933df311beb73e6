"""Downloads model files, for the commands only: nothing on the network makes hotseat fetch or write a file."""
