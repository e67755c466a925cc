/// What APNs keeps of a channel's broadcasts for phones that are offline: `message-storage-policy`, fixed when the channel is created.
public enum ChannelStorage: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// Apple's "No Message Stored". The budget for broadcasts is higher, and their expiration must be 0.
    case none = 0
    /// Apple's "Most Recent Message", kept for 8 hours at most.
    case newest = 1

    /// How long APNs keeps a message at most.
    public static let secondsMax: Int64 = 8 * 3_600

    /// As configuration and records spell it.
    public var name: StaticString {
        switch self {
        case .none: "none"
        case .newest: "newest"
        }
    }
}
