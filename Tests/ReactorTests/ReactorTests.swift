import Testbed
import Testing

/// Serialized as a whole: some tests count the process's descriptors or allocations, or lower its limits.
@Suite(.serialized, .ownThread)
struct ReactorTests {}
