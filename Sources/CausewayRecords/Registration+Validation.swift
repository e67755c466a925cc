import Foundation

extension Registration {
    /// Checks the registration by the worker's rules, before you send it. Does not check the app, because only the
    /// worker's configuration lists the apps.
    ///
    /// - Throws: an ``InvalidRecord`` with all faults that were found, or another error if a value cannot be encoded as
    ///   JSON.
    public func validate() throws { try RecordRules.registration.check(JSONValue(text: value()), now: Date()) }
}
