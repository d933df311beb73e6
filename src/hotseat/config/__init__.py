"""From files to a Catalog and Settings, or to a list of complaints with file, line and column."""
