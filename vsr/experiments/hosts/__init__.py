"""One evolution on several hosts: processes that find each other, one that searches and writes, all that simulate."""
