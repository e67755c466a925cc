/// Events on the phones that no push causes: users install apps and dismiss activities, and apps start
/// activities and post tokens.
extension DeviceModel {
    /// A kind of Live Activity that an app declares.
    public struct TypeDeclaration: Sendable {
        public var name: String
        public var attributes: Shape
        public var contentState: Shape
        /// The attribute that holds the activity's id; nil: no attribute holds it.
        public var identifierAttribute: String?

        public init(name: String, attributes: Shape, contentState: Shape, identifierAttribute: String? = nil) {
            self.name = name
            self.attributes = attributes
            self.contentState = contentState
            self.identifierAttribute = identifierAttribute
        }
    }

    /// What happens to a token that was replaced.
    public enum ReplacedTokenBehavior: String, Sendable {
        /// APNs responds with 410 to pushes for the old token when the grace time is over
        /// (``DeviceRules/retiredTokenGraceMilliseconds``).
        case retired
        /// APNs still responds with 200 to pushes for the old token, but no phone gets them.
        case acceptedWithoutEffect
    }

    /// An activity that the app starts itself.
    public struct AppStart: Sendable {
        public var activity: String
        public var device: String
        public var attributesType: String
        /// The attributes as JSON.
        public var attributes: String
        /// The content state as JSON.
        public var contentState: String
        /// The timestamp of the activity's first content, UNIX seconds; nil: now, and the app's registration does not
        /// say which version the activity shows.
        public var timestamp: Int64?
        public var audiences: [String]
        /// The broadcast channel of the activity; nil: none. An activity on a channel gets no update token.
        public var channel: String?

        public init(
            activity: String,
            device: String,
            attributesType: String,
            attributes: String,
            contentState: String,
            timestamp: Int64? = nil,
            audiences: [String] = [],
            channel: String? = nil
        ) {
            self.activity = activity
            self.device = device
            self.attributesType = attributesType
            self.attributes = attributes
            self.contentState = contentState
            self.timestamp = timestamp
            self.audiences = audiences
            self.channel = channel
        }
    }

    /// Declares an app, and with it the topic `<bundle id>.push-type.liveactivity`.
    public mutating func declareApp(
        _ bundleId: String,
        teamId: String?,
        types declaredTypes: [TypeDeclaration]
    ) throws(Fault) {
        guard !apps.contains(where: { $0.bundleId == bundleId }) else {
            throw .appExists(bundleId)
        }
        let appIndex = apps.count
        apps.append(
            App(
                bundleId: bundleId,
                bundleIdUTF8: Array(bundleId.utf8),
                teamId: teamId
            )
        )
        for type in declaredTypes {
            apps[appIndex].typeIndices.append(types.count)
            types.append(
                AttributesType(
                    appIndex: appIndex,
                    name: type.name,
                    attributes: type.attributes,
                    contentState: type.contentState,
                    identifierAttribute: type.identifierAttribute
                )
            )
        }
    }

    /// Installs an app on a device. The app posts a push-to-start token for each of its attributes types.
    public mutating func install(
        app: String,
        device: String,
        environment: Environment? = nil,
        hasFrequentUpdates: Bool = false,
        supportsChannels: Bool = false,
        audiences: [String] = [],
        nowMilliseconds: Int64
    ) throws(Fault) {
        let appIndex = try appIndex(app)
        let key = AppScopedIdentifier(appIndex: appIndex, identifier: device)
        guard installationIndicesByDevice[key] == nil else { throw .deviceExists(device) }
        guard installations.count < Self.installationsMax else { throw .tooMany("phones") }
        // Check the room for tokens before the phone is added. Otherwise the model would keep a phone that lacks some
        // of its tokens.
        guard tokens.hasRoom(for: apps[appIndex].typeIndices.count) else { throw .tooMany("tokens") }
        let index = installations.count
        let ownEnvironment = environment ?? self.environment
        installations.append(
            Installation(
                appIndex: appIndex,
                device: device,
                environment: ownEnvironment,
                hasFrequentUpdates: hasFrequentUpdates,
                supportsChannels: supportsChannels,
                audiences: audiences,
                startBudget: BudgetBucket(rules.startBudget, nowMilliseconds: nowMilliseconds)
            )
        )
        installationIndicesByDevice[key] = index
        apps[appIndex].installationIndices.append(index)
        markChanged(installation: index)
        for position in apps[appIndex].typeIndices.indices {
            let typeIndex = apps[appIndex].typeIndices[position]
            guard let tokenIndex = issueStartToken(installationIndex: index, typeIndex: typeIndex) else {
                throw .tooMany("tokens")
            }
            installations[index].startTokenIndices.append(tokenIndex)
            postStartToken(installation: index, position: position, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Starts an activity as the app does, and posts its update token. An activity on a channel has no update
    /// token.
    public mutating func start(_ start: AppStart, app: String, nowMilliseconds: Int64) throws(Fault) {
        let appIndex = try appIndex(app)
        let installation = try installationIndex(start.device, appIndex: appIndex)
        let type = try typeIndex(start.attributesType, appIndex: appIndex)
        guard activities.count < Self.activitiesMax else { throw .tooMany("activities") }
        guard installations[installation].isInstalled else { throw .unknownDevice(start.device) }
        try validate(start.attributes, types[type].attributes, nowMilliseconds: nowMilliseconds)
        try validate(start.contentState, types[type].contentState, nowMilliseconds: nowMilliseconds)
        var channel: Int?
        if let identifier = start.channel { channel = try self.channelIndex(identifier, appIndex: appIndex) }
        var contentState = start.contentState
        let attributes = Array(start.attributes.utf8)
        let index = contentState.withUTF8 { bytes in
            addActivity(
                installation: installation,
                type: type,
                identifier: start.activity,
                attributes: attributes,
                contentState: UnsafeRawBufferPointer(bytes),
                timestamp: start.timestamp,
                isStartedByPush: false,
                audiences: start.audiences,
                nowMilliseconds: nowMilliseconds
            )
        }
        if let channel { return subscribe(index, to: channel) }
        issueAndPostToken(of: index, nowMilliseconds: nowMilliseconds)
    }

    /// Gives an activity a new update token, which the app posts.
    public mutating func rotateToken(
        ofActivity identifier: String,
        app: String,
        replacedTokenBehavior: ReplacedTokenBehavior,
        nowMilliseconds: Int64
    ) throws(Fault) {
        let index = try activityIndex(identifier, appIndex: try appIndex(app))
        advance(index, nowMilliseconds: nowMilliseconds)
        guard activities[index].isActive, let oldTokenIndex = activities[index].tokenIndex else {
            throw .activityIsOver(identifier)
        }
        guard issueAndPostToken(of: index, nowMilliseconds: nowMilliseconds) else { throw .tooMany("tokens") }
        tokens.setState(
            stateOfReplacedToken(replacedTokenBehavior, nowMilliseconds: nowMilliseconds),
            of: oldTokenIndex
        )
    }

    /// Gives a phone a new push-to-start token, which the app posts.
    public mutating func rotateStartToken(
        device: String,
        attributesType: String,
        app: String,
        replacedTokenBehavior: ReplacedTokenBehavior,
        nowMilliseconds: Int64
    ) throws(Fault) {
        let appIndex = try appIndex(app)
        let installation = try installationIndex(device, appIndex: appIndex)
        let type = try typeIndex(attributesType, appIndex: appIndex)
        guard let position = apps[appIndex].typeIndices.firstIndex(of: type),
            installations[installation].startTokenIndices.indices.contains(position),
            installations[installation].isInstalled
        else { throw .unknownDevice(device) }
        guard let tokenIndex = issueStartToken(installationIndex: installation, typeIndex: type) else {
            throw .tooMany("tokens")
        }
        tokens.setState(
            stateOfReplacedToken(replacedTokenBehavior, nowMilliseconds: nowMilliseconds),
            of: installations[installation].startTokenIndices[position]
        )
        installations[installation].startTokenIndices[position] = tokenIndex
        postStartToken(installation: installation, position: position, nowMilliseconds: nowMilliseconds)
    }

    /// The user dismisses an activity. The app's server learns this only from a later push to the update token, when
    /// APNs responds with 410. If the activity is on a channel, the server never learns it.
    public mutating func dismiss(activity identifier: String, app: String, nowMilliseconds: Int64) throws(Fault) {
        let index = try activityIndex(identifier, appIndex: try appIndex(app))
        advance(index, nowMilliseconds: nowMilliseconds)
        activities[index].remove(atMilliseconds: nowMilliseconds)
        retireToken(of: index, as: .expiredToken)
        markChanged(installation: activities[index].installationIndex)
    }

    /// The user removes an app from a phone; does nothing if the app is not on the phone. The app's activities
    /// disappear from the phone, and its tokens become invalid.
    public mutating func uninstall(app: String, device: String, nowMilliseconds: Int64) throws(Fault) {
        let installation = try installationIndex(device, appIndex: try appIndex(app))
        guard installations[installation].isInstalled else { return }
        installations[installation].isInstalled = false
        markChanged(installation: installation)
        for index in installations[installation].activityIndices {
            advance(index, nowMilliseconds: nowMilliseconds)
            activities[index].remove(atMilliseconds: nowMilliseconds)
            retireToken(of: index, as: .unregistered)
        }
        for token in installations[installation].startTokenIndices {
            tokens.setState(.retired(.unregistered, atMilliseconds: nowMilliseconds), of: token)
        }
    }

    /// Returns the update token of an activity in hexadecimal digits; nil if it has none.
    public func token(ofActivity identifier: String, app: String) throws(Fault) -> String? {
        activities[try activityIndex(identifier, appIndex: try appIndex(app))].tokenIndex.map(tokens.hexadecimal)
    }

    /// Returns the push-to-start token of a phone for an attributes type in hexadecimal digits.
    public func pushToStartToken(ofDevice device: String, attributesType: String, app: String) throws(Fault) -> String {
        let appIndex = try appIndex(app)
        let installation = try installationIndex(device, appIndex: appIndex)
        let type = try typeIndex(attributesType, appIndex: appIndex)
        guard let position = apps[appIndex].typeIndices.firstIndex(of: type) else {
            throw .unknownAttributesType(attributesType)
        }
        return tokens.hexadecimal(installations[installation].startTokenIndices[position])
    }

    private func stateOfReplacedToken(_ behavior: ReplacedTokenBehavior, nowMilliseconds: Int64) -> TokenTable.State {
        switch behavior {
        case .retired: .retired(.expiredToken, atMilliseconds: nowMilliseconds)
        case .acceptedWithoutEffect: .acceptedWithoutEffect
        }
    }

    /// Throws if the JSON text does not match the declared shape. A real app cannot start such an activity, because
    /// the app's Swift types cannot hold the values.
    private func validate(_ json: String, _ shape: Shape, nowMilliseconds: Int64) throws(Fault) {
        let text = Array(json.utf8)
        let problem: String? = text.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONTape.Fault) {
                try tape.read(bytes)
            } catch {
                return "not JSON: \(error)"
            }
            return shape.decode(tape, at: 0, nowMilliseconds: nowMilliseconds).mismatch.map(shape.describe)
        }
        if let problem { throw .contentDoesNotDecode(problem) }
    }

    /// Puts an active activity without a token on a phone, and returns the activity's index.
    mutating func addActivity(
        installation: Int,
        type: Int,
        identifier: String,
        attributes: [UInt8],
        contentState: UnsafeRawBufferPointer,
        timestamp: Int64?,
        isStartedByPush: Bool,
        audiences: [String],
        nowMilliseconds: Int64
    ) -> Int {
        let index = activities.count
        activities.append(
            Activity(
                installationIndex: installation,
                typeIndex: type,
                identifier: identifier,
                attributes: attributes,
                contentState: contentState,
                timestamp: timestamp,
                isStartedByPush: isStartedByPush,
                audiences: audiences,
                budget: BudgetBucket(rules.updateBudget, nowMilliseconds: nowMilliseconds),
                nowMilliseconds: nowMilliseconds
            )
        )
        installations[installation].activityIndices.append(index)
        markChanged(installation: installation)
        let key = AppScopedIdentifier(appIndex: installations[installation].appIndex, identifier: identifier)
        activityIndicesByIdentifier[key, default: []].append(index)
        return index
    }

    /// Returns the index of a new push-to-start token of a phone; nil if the table of tokens is full.
    private mutating func issueStartToken(installationIndex: Int, typeIndex: Int) -> Int? {
        tokens.issue(
            to: .pushToStart(installation: installationIndex, type: typeIndex),
            appIndex: installations[installationIndex].appIndex,
            state: installations[installationIndex].environment == environment ? .live : .otherEnvironment
        )
    }

    /// Posts a registration of a phone's push-to-start token.
    ///
    /// - Parameter position: the index of the token's attributes type in `App.typeIndices`.
    private mutating func postStartToken(installation: Int, position: Int, nowMilliseconds: Int64) {
        let installed = installations[installation]
        let type = types[apps[installed.appIndex].typeIndices[position]]
        let token = tokens.hexadecimal(installed.startTokenIndices[position])
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("app", apps[installed.appIndex].bundleId)
            writer.member("environment", installed.environment.rawValue)
            writer.member("registeredAt", nowMilliseconds)
            writer.member("device", installed.device)
            writer.member("attributesType", type.name)
            writer.member("token", token)
            if !installed.audiences.isEmpty {
                writer.member(
                    "audiences",
                    array: { writer in for audience in installed.audiences { writer.string(audience) } }
                )
            }
            if installed.supportsChannels { writer.member("channels", true) }
        }
        let key = "\(installed.device)/\(type.name)"
        registrations.append(RegistrationRecord(key: key, value: writer.bytes))
    }

    /// Gives the activity a new update token, which the app posts. Returns false and changes nothing if the table of
    /// tokens is full. Callers may ignore this: an activity may have no token, and servers must handle that.
    @discardableResult
    mutating func issueAndPostToken(of index: Int, nowMilliseconds: Int64) -> Bool {
        let installation = installations[activities[index].installationIndex]
        guard
            let token = tokens.issue(
                to: .activity(index),
                appIndex: installation.appIndex,
                state: installation.environment == environment ? .live : .otherEnvironment
            )
        else { return false }
        activities[index].tokenIndex = token
        let activity = activities[index]
        let hexadecimal = tokens.hexadecimal(token)
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("app", apps[installation.appIndex].bundleId)
            writer.member("environment", installation.environment.rawValue)
            writer.member("registeredAt", nowMilliseconds)
            writer.member("activity", activity.identifier)
            writer.member("token", hexadecimal)
            if !activity.audiences.isEmpty {
                writer.member(
                    "audiences",
                    array: { writer in for audience in activity.audiences { writer.string(audience) } }
                )
            }
            writer.member("frequentUpdates", installation.hasFrequentUpdates)
            if activity.isShownVersionKnown, activity.shownTimestamp > 0 {
                writer.member("shows", object: { writer in writer.member("timestamp", activity.shownTimestamp) })
            }
        }
        registrations.append(RegistrationRecord(key: activity.identifier, value: writer.bytes))
        return true
    }
}
