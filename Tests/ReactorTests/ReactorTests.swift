import Testbed
import Testing

/// The tests run one after the other. Some measure times, which other busy tests would lengthen.
@Suite(.serialized, .ownThread)
struct ReactorTests {}
