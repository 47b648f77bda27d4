"""The demo as a static site: sounds with and without a mark, pictures, attacked copies, tables, a listening test."""
