"""The command line: what people at a terminal use. Commands are thin; what they do is in the modules around."""
