import Foundation
import Reactor

extension Process {
    /// Runs the program like `run()`, but not while this process takes down an embedded Kafka broker. Otherwise the
    /// program would for a moment have a copy of the broker's listening socket, and so keep the port in use.
    public func start() throws { try ProcessStartLock.runExclusively(run) }
}
