import Foundation
import Reactor

extension Process {
    /// Runs the program like `run()`, but not while a broker in this process goes down: the broker would find its port taken.
    public func start() throws { try ProgramStart.exclusively(run) }
}
