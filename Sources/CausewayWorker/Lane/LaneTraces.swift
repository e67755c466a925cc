import Delivery
import Kafka

/// What a lane does for traces: it takes a record's place in one from its headers, and puts it into those of what the record comes to.
final class LaneTraces {
    /// Where a trace is written down for the core, which copies it.
    private let room: UnsafeMutableRawBufferPointer

    init() {
        room = .allocate(byteCount: CarriedTrace.bytesMax, alignment: 8)
    }

    deinit {
        room.deallocate()
    }

    /// For the core to carry; empty of a record that is in no trace. Valid until the next call.
    func carried(by message: borrowing Message) -> UnsafeRawBufferPointer {
        guard let headers = message.headers, let trace = CarriedTrace(headers) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return trace.write(to: room)
    }
}
