import Numbers

/// The simulated world behind APNs: apps, phones, their Live Activities, and the tokens that reach them.
///
/// A state machine without I/O. Time is an argument and tokens come from a seeded generator, so the same calls give the
/// same results. The model has three users: APNs checks a token and delivers a push (`DeviceModel+Push`), the app on a
/// phone starts activities and posts tokens (`DeviceModel+App`), and a test asks what each phone shows
/// (`DeviceModel+Queries`).
public struct DeviceModel: ~Copyable {
    public static let installationsMax = 2_000_000
    public static let activitiesMax = 4_000_000

    /// A kind of Live Activity that an app declares.
    struct AttributesType {
        var appIndex: Int
        var name: String
        var attributes: Shape
        var contentState: Shape
        /// The attribute that holds the activity's id. By this attribute, the app knows which activity a push
        /// has started.
        var identifierAttribute: String?
    }

    struct App {
        var bundleId: String
        /// The bundle id as bytes, because every push compares its topic with it.
        var bundleIdUTF8: [UInt8]
        /// The only team that may push to the app. Nil: every team may push to it if the service knows a key of the
        /// team.
        var teamId: String?
        /// Whether the app has the capability for broadcasts.
        var mayBroadcast = true
        var typeIndices: [Int] = []
        var installationIndices: [Int] = []
    }

    /// An app installed on a device. The control interface and the live page call it a phone.
    struct Installation {
        var appIndex: Int
        var device: String
        var environment: Environment
        var hasFrequentUpdates: Bool
        var isInstalled = true
        /// Whether the phone runs iOS 18 or newer and its app supports channels. The registrations of the phone's
        /// push-to-start tokens say so.
        var supportsChannels = false
        /// The audiences that the app posts with its push-to-start tokens, and with the tokens of activities
        /// that a push has started.
        var audiences: [String] = []
        var isOnline = true
        /// The indices in `DeviceModel.tokens` of the push-to-start tokens: one for each attributes type of the app, in
        /// the order of `App.typeIndices`.
        var startTokenIndices: [Int] = []
        var startBudget: BudgetBucket
        var activityIndices: [Int] = []
        var effects = EffectCounts()
        var duplicateStartCount = 0
        var lastProblem: String?
        /// The number of the phone's last change. ``DeviceModel/changeCount`` numbers the changes of all phones.
        var lastChangeNumber = 0
        /// The state of the screen in the last response to the live page. The state can change without an event, for
        /// example when content becomes stale. So each request of the page compares it with the present state.
        var reportedState = ScreenState.empty
    }

    /// Why the simulated world cannot do what an app or a test asks for.
    public enum Fault: Error, Sendable, Equatable {
        case unknownApp(String)
        case unknownDevice(String)
        case unknownActivity(String)
        case unknownAttributesType(String)
        case appExists(String)
        case deviceExists(String)
        case contentDoesNotDecode(String)
        case activityIsOver(String)
        case tooMany(String)
        case unknownCrowd(String)
        case crowdExists(String)
        case unknownChannel(String)
        case broadcastsAreOff(String)
    }

    struct AppScopedIdentifier: Hashable {
        var appIndex: Int
        var identifier: String
    }

    public let environment: Environment
    public var rules: DeviceRules
    public var channelRules: ChannelRules

    var apps: [App] = []
    var types: [AttributesType] = []
    var installations: [Installation] = []
    var activities: [Activity] = []
    var tokens: TokenTable
    var registrations = RegistrationLog()
    var installationIndicesByDevice: [AppScopedIdentifier: Int] = [:]
    /// The indices of the activities with each id, oldest first. Several activities have the same id if a start was
    /// repeated, or if an ended activity was started again.
    var activityIndicesByIdentifier: [AppScopedIdentifier: [Int]] = [:]
    /// Pushes that APNs accepted for tokens that no longer reach a phone.
    var acceptedForDeadTokenCount = 0
    var compactPhones = CompactPhones()
    var channels: ChannelTable
    /// Counts the changes of all phones. The web page gets this number with each response, and sends it with the next
    /// request, so that it gets only later changes.
    var changeCount = 0
    /// The numbers of pushes that a correct client does not send.
    var senderFaults = SenderFaultCounts()
    var lostResponseMoments = LostResponseMoments()
    var stateNameTable = StateNameTable()

    public init(
        environment: Environment,
        rules: DeviceRules = DeviceRules(),
        channelRules: ChannelRules = ChannelRules(),
        seed: UInt64
    ) {
        self.environment = environment
        self.rules = rules
        self.channelRules = channelRules
        channels = ChannelTable(random: SplitMix64(seed: ~seed))
        tokens = TokenTable(random: SplitMix64(seed: seed))
    }

    /// The number of registrations posted so far. A reader with this number as its cursor has seen all of them.
    public var registrationCount: Int { registrations.postedCount }

    /// Returns the index of the app with this bundle id; nil if there is none.
    func appIndex(bundle: UnsafeRawBufferPointer) -> Int? {
        for index in apps.indices
        where apps[index].bundleIdUTF8.withUnsafeBytes({ isEqual($0, bundle) }) {
            return index
        }
        return nil
    }

    /// Whether a team's keys may be used for an app.
    func mayPush(team: String, to appIndex: Int) -> Bool {
        guard let ownTeam = apps[appIndex].teamId else { return true }
        return ownTeam == team
    }

    func appIndex(_ bundleId: String) throws(Fault) -> Int {
        guard let index = apps.firstIndex(where: { $0.bundleId == bundleId }) else {
            throw .unknownApp(bundleId)
        }
        return index
    }

    func installationIndex(_ device: String, appIndex: Int) throws(Fault) -> Int {
        guard let index = installationIndicesByDevice[AppScopedIdentifier(appIndex: appIndex, identifier: device)]
        else {
            throw .unknownDevice(device)
        }
        return index
    }

    func typeIndex(_ name: String, appIndex: Int) throws(Fault) -> Int {
        guard let index = apps[appIndex].typeIndices.first(where: { types[$0].name == name }) else {
            throw .unknownAttributesType(name)
        }
        return index
    }

    /// Returns the index of the youngest activity with an id. If several starts had this id, this is the activity that
    /// the last start created.
    func activityIndex(_ identifier: String, appIndex: Int) throws(Fault) -> Int {
        let key = AppScopedIdentifier(appIndex: appIndex, identifier: identifier)
        guard let index = activityIndicesByIdentifier[key]?.last else { throw .unknownActivity(identifier) }
        return index
    }

    /// Ends an activity at an age of 8 h, and retires its token. Removes an ended activity at its dismissal date. Does
    /// nothing before these times.
    mutating func advance(_ activity: Int, nowMilliseconds: Int64) {
        if activities[activity].advance(to: nowMilliseconds) { retireToken(of: activity, as: .expiredToken) }
    }

    /// Makes the next response about screens contain this phone, because its screen may now show something else.
    @inline(__always)
    mutating func markChanged(installation: Int) {
        changeCount &+= 1
        installations[installation].lastChangeNumber = changeCount
    }

    /// Retires the update token of an activity that has ended or was removed: APNs now responds with 410 and `reason`
    /// to its pushes. Exception: for `expiredToken`, only after the grace time
    /// (``DeviceRules/retiredTokenGraceMilliseconds``). Does nothing if the activity is active or has no live token.
    mutating func retireToken(of activity: Int, as reason: SimulatedResponse) {
        guard let token = activities[activity].tokenIndex,
            let endedOrRemovedAtMilliseconds = activities[activity].endedOrRemovedAtMilliseconds
        else {
            return
        }
        guard tokens.entries[token].state == .live else { return }
        tokens.setState(.retired(reason, atMilliseconds: endedOrRemovedAtMilliseconds), of: token)
    }
}

/// Apple's two environments. A service and a token each belong to one of them.
public enum Environment: String, Sendable, CaseIterable {
    case production, sandbox
}
