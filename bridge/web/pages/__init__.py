"""The pages, by subject. Each page is a synchronous function that runs in a thread, since reading a store blocks."""
