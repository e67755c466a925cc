/// Events on the phones that no push causes: users install apps and dismiss activities, and apps start
/// activities and post tokens.
extension DeviceModel {
    /// A kind of Live Activity that an app declares.
    public struct TypeDeclaration: Sendable {
        public var name: String
        public var attributes: Shape
        public var contentState: Shape
        /// The attribute that holds the activity's id.
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
        /// APNs responds with 410 to pushes for the old token, after the grace time of ``DeviceRules``.
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
        teamIdentifier: String?,
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
                teamIdentifier: teamIdentifier
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
        guard phoneIndicesByDevice[key] == nil else { throw .deviceExists(device) }
        guard phones.count < Self.phonesMax else { throw .tooMany("phones") }
        // Check this before the phone is added. Otherwise the model would keep a phone that lacks some of its tokens.
        guard tokens.hasRoom(for: apps[appIndex].typeIndices.count) else { throw .tooMany("tokens") }
        let index = phones.count
        let ownEnvironment = environment ?? self.environment
        phones.append(
            Phone(
                appIndex: appIndex,
                device: device,
                environment: ownEnvironment,
                hasFrequentUpdates: hasFrequentUpdates,
                supportsChannels: supportsChannels,
                audiences: audiences,
                startBudget: BudgetBucket(rules.startBudget, nowMilliseconds: nowMilliseconds)
            )
        )
        phoneIndicesByDevice[key] = index
        apps[appIndex].phoneIndices.append(index)
        markChanged(phone: index)
        for position in apps[appIndex].typeIndices.indices {
            let typeIndex = apps[appIndex].typeIndices[position]
            guard let tokenIndex = issueStartToken(phoneIndex: index, typeIndex: typeIndex) else {
                throw .tooMany("tokens")
            }
            phones[index].startTokenIndices.append(tokenIndex)
            postStartToken(phone: index, position: position, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Starts an activity as the app does, and posts its update token. An activity on a channel has no update
    /// token.
    public mutating func start(_ start: AppStart, app: String, nowMilliseconds: Int64) throws(Fault) {
        let appIndex = try appIndex(app)
        let phone = try phoneIndex(start.device, appIndex: appIndex)
        let type = try typeIndex(start.attributesType, appIndex: appIndex)
        guard activities.count < Self.activitiesMax else { throw .tooMany("activities") }
        guard phones[phone].isInstalled else { throw .unknownDevice(start.device) }
        try validate(start.attributes, types[type].attributes, nowMilliseconds: nowMilliseconds)
        try validate(start.contentState, types[type].contentState, nowMilliseconds: nowMilliseconds)
        var channel: Int?
        if let identifier = start.channel { channel = try self.channelIndex(identifier, appIndex: appIndex) }
        var contentState = start.contentState
        let attributes = Array(start.attributes.utf8)
        let index = contentState.withUTF8 { bytes in
            addActivity(
                phone: phone,
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
        oldToken: ReplacedTokenBehavior,
        nowMilliseconds: Int64
    ) throws(Fault) {
        let index = try activityIndex(identifier, appIndex: try appIndex(app))
        advance(index, nowMilliseconds: nowMilliseconds)
        guard activities[index].isActive, let token = activities[index].tokenIndex else {
            throw .activityIsOver(identifier)
        }
        guard issueAndPostToken(of: index, nowMilliseconds: nowMilliseconds) else { throw .tooMany("tokens") }
        tokens.setState(stateOfReplacedToken(oldToken, nowMilliseconds: nowMilliseconds), of: token)
    }

    /// Gives a phone a new push-to-start token, which the app posts.
    public mutating func rotateStartToken(
        device: String,
        attributesType: String,
        app: String,
        oldToken: ReplacedTokenBehavior,
        nowMilliseconds: Int64
    ) throws(Fault) {
        let appIndex = try appIndex(app)
        let phone = try phoneIndex(device, appIndex: appIndex)
        let type = try typeIndex(attributesType, appIndex: appIndex)
        guard let position = apps[appIndex].typeIndices.firstIndex(of: type),
            phones[phone].startTokenIndices.indices.contains(position), phones[phone].isInstalled
        else { throw .unknownDevice(device) }
        guard let tokenIndex = issueStartToken(phoneIndex: phone, typeIndex: type) else {
            throw .tooMany("tokens")
        }
        tokens.setState(
            stateOfReplacedToken(oldToken, nowMilliseconds: nowMilliseconds),
            of: phones[phone].startTokenIndices[position]
        )
        phones[phone].startTokenIndices[position] = tokenIndex
        postStartToken(phone: phone, position: position, nowMilliseconds: nowMilliseconds)
    }

    /// The user dismisses an activity. The app's server learns this only from a later push to the update token, when
    /// APNs responds with 410. If the activity is on a channel, the server never learns it.
    public mutating func dismiss(activity identifier: String, app: String, nowMilliseconds: Int64) throws(Fault) {
        let index = try activityIndex(identifier, appIndex: try appIndex(app))
        advance(index, nowMilliseconds: nowMilliseconds)
        activities[index].remove(atMilliseconds: nowMilliseconds)
        retireToken(of: index, as: .expiredToken)
        markChanged(phone: activities[index].phoneIndex)
    }

    /// The user removes the app. Its activities disappear and all its tokens become invalid.
    public mutating func uninstall(app: String, device: String, nowMilliseconds: Int64) throws(Fault) {
        let phone = try phoneIndex(device, appIndex: try appIndex(app))
        guard phones[phone].isInstalled else { return }
        phones[phone].isInstalled = false
        markChanged(phone: phone)
        for index in phones[phone].activityIndices {
            advance(index, nowMilliseconds: nowMilliseconds)
            activities[index].remove(atMilliseconds: nowMilliseconds)
            retireToken(of: index, as: .unregistered)
        }
        for token in phones[phone].startTokenIndices {
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
        let phone = try phoneIndex(device, appIndex: appIndex)
        let type = try typeIndex(attributesType, appIndex: appIndex)
        guard let position = apps[appIndex].typeIndices.firstIndex(of: type) else {
            throw .unknownAttributesType(attributesType)
        }
        return tokens.hexadecimal(phones[phone].startTokenIndices[position])
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
        phone: Int,
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
                phoneIndex: phone,
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
        phones[phone].activityIndices.append(index)
        markChanged(phone: phone)
        let key = AppScopedIdentifier(appIndex: phones[phone].appIndex, identifier: identifier)
        activityIndicesByIdentifier[key, default: []].append(index)
        return index
    }

    /// Returns the index of a new push-to-start token of a phone; nil if the table of tokens is full.
    private mutating func issueStartToken(phoneIndex: Int, typeIndex: Int) -> Int? {
        tokens.issue(
            to: .pushToStart(phone: phoneIndex, type: typeIndex),
            appIndex: phones[phoneIndex].appIndex,
            state: phones[phoneIndex].environment == environment ? .live : .otherEnvironment
        )
    }

    /// Posts a registration of a phone's push-to-start token.
    ///
    /// - Parameter position: the index of the token's attributes type in `App.typeIndices`.
    private mutating func postStartToken(phone: Int, position: Int, nowMilliseconds: Int64) {
        let installedPhone = phones[phone]
        let type = types[apps[installedPhone.appIndex].typeIndices[position]]
        let token = tokens.hexadecimal(installedPhone.startTokenIndices[position])
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", apps[installedPhone.appIndex].bundleId)
            writer.member("environment", installedPhone.environment.rawValue)
            writer.member("registeredAt", nowMilliseconds)
            writer.member("device", installedPhone.device)
            writer.member("attributesType", type.name)
            writer.member("token", token)
            if !installedPhone.audiences.isEmpty {
                writer.member(
                    "audiences",
                    array: { writer in for audience in installedPhone.audiences { writer.string(audience) } }
                )
            }
            if installedPhone.supportsChannels { writer.member("channels", true) }
        }
        let key = "\(installedPhone.device)/\(type.name)"
        registrations.append(RegistrationRecord(key: key, value: writer.bytes))
    }

    /// Gives the activity a new update token, which the app posts. If the table of tokens is full, does nothing and
    /// returns false: a new activity then has no token, and a server must handle that case too.
    @discardableResult
    mutating func issueAndPostToken(of index: Int, nowMilliseconds: Int64) -> Bool {
        let phone = phones[activities[index].phoneIndex]
        guard
            let token = tokens.issue(
                to: .activity(index),
                appIndex: phone.appIndex,
                state: phone.environment == environment ? .live : .otherEnvironment
            )
        else { return false }
        activities[index].tokenIndex = token
        let activity = activities[index]
        let hexadecimal = tokens.hexadecimal(token)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", apps[phone.appIndex].bundleId)
            writer.member("environment", phone.environment.rawValue)
            writer.member("registeredAt", nowMilliseconds)
            writer.member("activity", activity.identifier)
            writer.member("token", hexadecimal)
            if !activity.audiences.isEmpty {
                writer.member(
                    "audiences",
                    array: { writer in for audience in activity.audiences { writer.string(audience) } }
                )
            }
            writer.member("frequentUpdates", phone.hasFrequentUpdates)
            if activity.isShownVersionKnown, activity.shownTimestamp > 0 {
                writer.member("shows", object: { writer in writer.member("timestamp", activity.shownTimestamp) })
            }
        }
        registrations.append(RegistrationRecord(key: activity.identifier, value: writer.bytes))
        return true
    }
}
