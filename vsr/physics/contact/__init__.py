"""Contact of robots, rigid and soft bodies and ground: candidates, contacts, impulses, and the bodies that move."""
