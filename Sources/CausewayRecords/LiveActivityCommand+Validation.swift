import Foundation

extension LiveActivityCommand {
    /// Checks the command by the worker's rules, before you send it. `causeway check --commands` applies the same
    /// rules.
    ///
    /// Does not check what depends on the worker's configuration: the apps, the policies, and what the phones can
    /// decode. A body that is too large is always a fault, although a policy may drop fields from it.
    ///
    /// - Parameter now: the present time. The command's timestamp may be at most 300 s later.
    /// - Throws: an ``InvalidRecord`` with all faults that were found, or another error if a value cannot be encoded as
    ///   JSON.
    public func validate(now: Date = Date()) throws { try RecordRules.command.check(makeJSON(), now: now) }
}
