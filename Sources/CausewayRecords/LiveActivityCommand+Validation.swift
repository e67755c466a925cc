import Foundation

extension LiveActivityCommand {
    /// Checks the command by the worker's rules before it is sent, as `causeway check --commands` does.
    ///
    /// The worker's configuration decides the rest: which apps and policies there are, what the phones can decode, and what a policy drops
    /// from a body that is too large. Here such a body is a fault.
    /// - Parameter now: the time with which the timestamp is compared.
    /// - Throws: an ``InvalidRecord`` that names each field, or the error of a value that JSON does not have.
    public func validate(now: Date = Date()) throws { try RecordRules.command.check(json(), now: now) }
}
