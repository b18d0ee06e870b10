"""Looking at robots: pages for a browser, films and strips of frames."""
