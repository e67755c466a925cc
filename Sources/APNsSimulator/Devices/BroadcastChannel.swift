import Numbers

/// The limits of channels. Apple does not publish all of them. A test may set other limits.
public struct ChannelRules: Sendable, Equatable {
    /// The maximum number of open channels of one app.
    public var channelsPerAppMax: Int
    /// How fast one channel accepts broadcasts; nil: at any rate. APNs responds with 429 to broadcasts above this
    /// rate. An Apple engineer has named a limit of one a second.
    public var broadcastBudget: DeviceRules.Budget?

    public init(
        channelsPerAppMax: Int = ChannelRules.appleChannelsPerAppMax,
        broadcastBudget: DeviceRules.Budget? = DeviceRules.Budget(capacity: 2, refillIntervalMilliseconds: 1_000)
    ) {
        self.channelsPerAppMax = min(max(0, channelsPerAppMax), Self.appleChannelsPerAppMax)
        self.broadcastBudget = broadcastBudget
    }

    /// Apple's limit on the channels of one app in one environment.
    public static let appleChannelsPerAppMax = 10_000
    /// APNs stores the newest message of a channel for at most 8 h.
    static let messageStorageMillisecondsMax: Int64 = 8 * 3_600_000
    /// The largest body of a broadcast, in bytes.
    static let bodyBytesMax = 5_120
}

/// A broadcast channel of one app. A channel has one of two states:
///
/// - `open`: activities subscribe, and broadcasts reach them. `deleted` follows when a request deletes the channel, or
///   when the app loses its capability for broadcasts.
/// - `deleted`: the final state. Subscribed activities stay on their phones and get no more broadcasts.
struct BroadcastChannel {
    /// A broadcast that APNs accepted. If the channel stores messages, APNs keeps the newest broadcast until it
    /// expires, at most 8 h. An offline phone that comes back in this time gets the broadcast once.
    struct AcceptedBroadcast {
        var body: [UInt8]
        var priority: UInt8
        var broadcastNumber: Int
        var expiresAtMilliseconds: Int64
    }

    let appIndex: Int
    /// The channel's id in base64, as in the `apns-channel-id` header.
    let identifier: String
    /// Whether APNs stores the newest message (storage policy 1).
    let storesNewestMessage: Bool
    let createdAtMilliseconds: Int64
    var deletedAtMilliseconds: Int64?
    /// The activities that began on the channel, including ended ones: indices of `DeviceModel.activities`.
    var subscriberIndices: [Int] = []
    var storedMessage: AcceptedBroadcast?
    var budget: BudgetBucket
    /// The number of accepted broadcasts. It is also the newest broadcast's number, because the first has number 1.
    var broadcastCount = 0
    var pushStatistics = PushStatistics()
}

/// The channels of all apps of one environment.
struct ChannelTable {
    struct Key: Hashable {
        var appIndex: Int
        var identifier: String
    }

    /// The maximum number of channels (R4). Deleted channels count too, because they stay in the table: tests can query
    /// them.
    static let channelsMax = 1_000_000
    private static let identifierByteCount = 16

    private(set) var channels: [BroadcastChannel] = []
    private var openChannelIndices: [Key: Int] = [:]
    private var openChannelCountsByApp: [Int: Int] = [:]
    private var random: SplitMix64

    init(random: SplitMix64) {
        self.random = random
    }

    subscript(index: Int) -> BroadcastChannel {
        get { channels[index] }
        _modify { yield &channels[index] }
    }

    func openChannelCount(appIndex: Int) -> Int { openChannelCountsByApp[appIndex] ?? 0 }

    /// Returns the index of an app's open channel with this id; nil if the app has no such channel.
    func find(_ identifier: String, appIndex: Int) -> Int? {
        openChannelIndices[Key(appIndex: appIndex, identifier: identifier)]
    }

    /// Returns the identifiers of an app's open channels, oldest first.
    func openChannelIdentifiers(appIndex: Int) -> [String] {
        channels.lazy.filter { $0.appIndex == appIndex && $0.deletedAtMilliseconds == nil }.map(\.identifier)
    }

    /// Creates a channel and returns its index. Returns nil if the table has `channelsMax` channels.
    mutating func create(
        appIndex: Int,
        storesNewestMessage: Bool,
        budget: DeviceRules.Budget?,
        nowMilliseconds: Int64
    ) -> Int? {
        guard channels.count < Self.channelsMax else { return nil }
        var bytes: [UInt8] = []
        while bytes.count < Self.identifierByteCount {
            withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) }
        }
        let identifier = Base64.text(of: bytes)
        channels.append(
            BroadcastChannel(
                appIndex: appIndex,
                identifier: identifier,
                storesNewestMessage: storesNewestMessage,
                createdAtMilliseconds: nowMilliseconds,
                budget: BudgetBucket(budget, nowMilliseconds: nowMilliseconds)
            )
        )
        openChannelIndices[Key(appIndex: appIndex, identifier: identifier)] = channels.count - 1
        openChannelCountsByApp[appIndex, default: 0] += 1
        return channels.count - 1
    }

    mutating func delete(_ index: Int, nowMilliseconds: Int64) {
        let channel = channels[index]
        let key = Key(appIndex: channel.appIndex, identifier: channel.identifier)
        guard openChannelIndices.removeValue(forKey: key) != nil else { return }
        openChannelCountsByApp[channel.appIndex, default: 0] -= 1
        channels[index].deletedAtMilliseconds = nowMilliseconds
        channels[index].storedMessage = nil
    }
}
