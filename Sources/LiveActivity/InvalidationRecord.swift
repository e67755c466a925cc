/// The record for the invalidations topic about a dead token. Texts are plain bytes without escapes, which must stay
/// valid until ``write(to:)`` has returned.
public struct InvalidationRecord {
    /// The activity or device of the token.
    public enum Address {
        case activity(UnsafeRawBufferPointer)
        case device(UnsafeRawBufferPointer)
    }

    public var app: UnsafeRawBufferPointer
    public var address: Address
    /// The token's hexadecimal digits.
    public var token: UnsafeRawBufferPointer
    public var environment: APNsEnvironment
    /// The reason in APNs' response.
    public var reason: UnsafeRawBufferPointer
    /// Since when the token is known to be dead, UNIX milliseconds: the time in APNs' response. If the response has no
    /// time, this is the time at which the response came.
    public var invalidAtMilliseconds: Int64

    public init(
        app: UnsafeRawBufferPointer,
        address: Address,
        token: UnsafeRawBufferPointer,
        environment: APNsEnvironment,
        reason: UnsafeRawBufferPointer,
        invalidAtMilliseconds: Int64
    ) {
        self.app = app
        self.address = address
        self.token = token
        self.environment = environment
        self.reason = reason
        self.invalidAtMilliseconds = invalidAtMilliseconds
    }

    /// Appends the record to `writer` as one JSON object.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("app", app)
        switch address {
        case .activity(let activity): writer.member("activity", activity)
        case .device(let device): writer.member("device", device)
        }
        writer.member("token", token)
        writer.key("environment")
        writer.string(environment.name)
        writer.member("reason", reason)
        writer.member("invalidAt", invalidAtMilliseconds)
        writer.endObject()
    }
}
