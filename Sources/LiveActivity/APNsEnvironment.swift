/// One of Apple's two APNs services. A token or a channel belongs to one service and is unknown to the other.
public enum APNsEnvironment: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    case production
    case sandbox

    /// The value of the field `environment` in records.
    public var name: StaticString {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        }
    }
}
