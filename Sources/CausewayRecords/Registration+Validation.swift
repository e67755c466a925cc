import Foundation

extension Registration {
    /// Checks the registration by the worker's rules before it is sent, as `causeway check --registrations` does. Only the worker's
    /// configuration says which apps there are.
    /// - Throws: an ``InvalidRecord`` that names each field, or the error of a value that JSON does not have.
    public func validate() throws { try RecordRules.registration.check(JSONValue(text: value()), now: Date()) }
}
