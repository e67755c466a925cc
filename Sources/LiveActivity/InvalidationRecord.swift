/// A dead token, for the invalidations topic. Texts are plain bytes without escapes. They are borrowed until ``write(to:)`` has
/// returned.
public struct InvalidationRecord {
    /// What the token reached.
    public enum Address {
        case activity(UnsafeRawBufferPointer)
        case device(UnsafeRawBufferPointer)
    }

    public var app: UnsafeRawBufferPointer
    public var address: Address
    /// Hexadecimal digits.
    public var token: UnsafeRawBufferPointer
    public var environment: DeviceEnvironment
    /// APNs' reason.
    public var reason: UnsafeRawBufferPointer
    /// The token is known to be dead since this time, UNIX milliseconds: Apple's time if APNs gave one.
    public var invalidAtMilliseconds: Int64

    public init(
        app: UnsafeRawBufferPointer,
        address: Address,
        token: UnsafeRawBufferPointer,
        environment: DeviceEnvironment,
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

    /// Appends the record.
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
