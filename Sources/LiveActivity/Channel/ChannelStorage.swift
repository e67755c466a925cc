/// What APNs stores of a channel's broadcasts for offline phones: `message-storage-policy`, which is fixed when the channel is
/// created.
public enum ChannelStorage: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// Apple's "No Message Stored". The budget for broadcasts is higher, and their expiration must be 0.
    case none = 0
    /// Apple's "Most Recent Message", stored for at most 8 hours.
    case newest = 1

    /// The longest time that APNs stores a message.
    public static let secondsMax: Int64 = 8 * 3_600

    /// The name in the configuration and in records.
    public var name: StaticString {
        switch self {
        case .none: "none"
        case .newest: "newest"
        }
    }
}
