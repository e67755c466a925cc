/// Which of a channel's broadcasts APNs stores for offline phones: Apple's `message-storage-policy`, which is fixed
/// when the channel is created.
public enum ChannelStoragePolicy: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// Apple's "No Message Stored". Apple allows more broadcasts on such a channel, each with the expiration 0.
    case none = 0
    /// Apple's "Most Recent Message", stored for at most 8 hours.
    case newest = 1

    /// The longest time that APNs stores a message. Workers delete no channel while APNs may still deliver its last
    /// message.
    public static let storedSecondsMax: Int64 = 8 * 3_600

    /// The name in the configuration and in records.
    public var name: StaticString {
        switch self {
        case .none: "none"
        case .newest: "newest"
        }
    }
}
