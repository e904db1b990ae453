//! What to send and how: reachability, bitmaps, reuse, and the stream of segments.
