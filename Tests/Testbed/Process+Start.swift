import Foundation
import Reactor

extension Process {
    /// Starts the program like `run()`, but never while this process takes down an embedded Kafka broker. At its start,
    /// a program has for a moment a copy of the broker's listening socket. The copy would keep the broker's port in
    /// use.
    public func start() throws { try ProcessStartLock.runExclusively(run) }
}
