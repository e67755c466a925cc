import Foundation
import Reactor

extension Process {
    /// Runs the program like `run()`, but not while this process closes an embedded Kafka broker. The program
    /// would inherit the broker's port, and keep it open.
    public func start() throws { try ProgramStart.exclusively(run) }
}
