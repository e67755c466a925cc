import Foundation
import Reactor

extension Process {
    /// Runs the program like `run()`, but not while a broker of this process goes down: the program would
    /// inherit the broker's port.
    public func start() throws { try ProgramStart.exclusively(run) }
}
