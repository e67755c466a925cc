import Testbed
import Testing

/// All tests are serialized, because some count the process's descriptors or allocations, or lower its
/// limits.
@Suite(.serialized, .ownThread)
struct ReactorTests {}
