import LiveActivity

/// The phones of a run, which live in the simulator's process.
struct SimulatedPhones {
    /// How many phones show the final state of their match, and the phones that do not.
    struct FinalStateComparison {
        var matchingPhoneCount: Int
        var wrongPhones: [DemoFigures.WrongPhone]
    }

    /// Counts, summed over all phones.
    struct Summary {
        var duplicateStartCount: Int
        var timestampRegressionCount: Int
        /// Pushes that a phone ignored because it already showed a newer state.
        var ignoredOldPushCount: Int
        /// Pushes whose content the app's types could not decode.
        var undecodablePushCount: Int
        var activeActivityCount: Int
        /// The active activities that are on a channel.
        var subscribedActivityCount: Int
        /// Activities that got at least one broadcast.
        var reachedActivityCount: Int
        var receivedBroadcastCount: Int
        /// Tokens that apps have sent to their server.
        var registrationCount: Int
    }

    /// The numbers of pushes that APNs has accepted.
    struct AcceptedCounts {
        /// Pushes to tokens of activities and devices, without broadcasts.
        var tokenPushCount: Int
        var priority10PushCount: Int
        var broadcastCount: Int
    }

    private static let activitiesPerRequest = 5_000

    let client: LoopbackHTTPClient
    /// Returns the audience of the registration with this key; nil: none. `readRegistrations` writes the audience into
    /// the registration, as an app's server does.
    var audienceOfRegistration: (_ key: String) -> String? = { _ in nil }

    /// Creates a phone for every follower, and the activities that apps start themselves.
    func createPhones(for feed: SeasonFeed) throws(LabError) {
        for (index, match) in feed.matches.enumerated() {
            let devices = (1...feed.followerCount).map { feed.deviceIdentifier(match: index, follower: $0) }
            // Phones whose app starts the activity itself have an iOS without channels. In a run without channels, all
            // phones have such an iOS.
            let phoneWithoutChannelsCount = feed.hasChannels ? feed.appStartedFollowerCount : feed.followerCount
            try createDevices(Array(devices.prefix(phoneWithoutChannelsCount)), supportsChannels: false)
            try createDevices(Array(devices.dropFirst(phoneWithoutChannelsCount)), supportsChannels: true)
            let activities = (1...feed.appStartedFollowerCount)
                .map { follower in
                    let activity = feed.activityIdentifier(match: index, follower: follower)
                    let activityInAttributes = feed.addressees == .activities ? activity : nil
                    let attributes = MatchCommands.attributes(of: match, activity: activityInAttributes)
                        .map { ("\($0.name)", $0.value) }
                    return [
                        "activity": activity, "device": feed.deviceIdentifier(match: index, follower: follower),
                        "attributes": Dictionary(attributes, uniquingKeysWith: { first, _ in first }),
                    ] as [String: Any]
                }
            let state = try LabJSON.decodeObject(match.openingStep.state.json)
            try client.requestObject(
                "POST",
                "/activities",
                [
                    "app": MatchCommands.app, "attributesType": MatchCommands.attributesType, "contentState": state,
                    "activities": activities,
                ]
            )
        }
    }

    private func createDevices(_ devices: [String], supportsChannels: Bool) throws(LabError) {
        guard !devices.isEmpty else { return }
        try client.requestObject(
            "POST",
            "/phones",
            ["app": MatchCommands.app, "devices": devices, "frequentUpdates": true, "channels": supportsChannels]
        )
    }

    /// Returns at most `limit` registrations, and the cursor for the next call. Waits up to `waitMilliseconds` for the
    /// first one.
    ///
    /// - Parameter cursor: 0 for the first registration, later the cursor that the last call returned.
    func readRegistrations(
        since cursor: Int,
        limit: Int,
        waitMilliseconds: Int
    ) throws(LabError) -> (records: [(key: String, value: [UInt8])], next: Int) {
        let target = "/registrations?since=\(cursor)&limit=\(limit)&waitMilliseconds=\(waitMilliseconds)"
        let response = try client.requestObject("GET", target)
        guard let next = response["next"] as? Int, let list = response["registrations"] as? [[String: Any]] else {
            throw LabError("the simulator's registrations have an unexpected form")
        }
        var records: [(key: String, value: [UInt8])] = []
        for entry in list {
            guard let key = entry["key"] as? String, var value = entry["value"] as? [String: Any] else {
                throw LabError("the simulator's registrations have an unexpected form")
            }
            if let audience = audienceOfRegistration(key) { value["audiences"] = [audience] }
            records.append((key, try LabJSON.encode(value)))
        }
        return (records, next)
    }

    /// Compares every phone with the final state of its match.
    func compare(with feed: SeasonFeed) throws(LabError) -> FinalStateComparison {
        var comparison = FinalStateComparison(matchingPhoneCount: 0, wrongPhones: [])
        for index in feed.matches.indices {
            let state = try LabJSON.decodeObject(feed.finalState(match: index).json)
            var followerNumbers = Array(1...feed.followerCount)[...]
            while !followerNumbers.isEmpty {
                let chunk = followerNumbers.prefix(Self.activitiesPerRequest)
                followerNumbers = followerNumbers.dropFirst(chunk.count)
                let expected = chunk.map { (feed.activityIdentifier(match: index, follower: $0), state) }
                let response = try client.requestObject(
                    "POST",
                    "/expect",
                    [
                        "app": MatchCommands.app,
                        "activities": Dictionary(expected, uniquingKeysWith: { first, _ in first }),
                    ]
                )
                comparison.matchingPhoneCount += response["matching"] as? Int ?? 0
                for mismatch in response["mismatches"] as? [[String: Any]] ?? [] {
                    comparison.wrongPhones.append(Self.parseWrongPhone(mismatch))
                }
            }
        }
        return comparison
    }

    private static func parseWrongPhone(_ mismatch: [String: Any]) -> DemoFigures.WrongPhone {
        let activity = mismatch["activity"] as? String ?? "?"
        guard let shows = mismatch["shows"] as? [String: Any] else {
            return DemoFigures.WrongPhone(activity: activity, shows: "nothing (\(mismatch["state"] as? String ?? "?"))")
        }
        let score = makeScoreLine(shows)
        return DemoFigures.WrongPhone(
            activity: activity,
            shows: "\(score), \(shows["result"] as? String ?? "no result")"
        )
    }

    private static func makeScoreLine(_ state: [String: Any]) -> String {
        let (batting, overs) = (state["batting"] as? String ?? "?", state["overs"] as? String ?? "?")
        return "\(batting) \(state["runs"] as? Int ?? -1)/\(state["wickets"] as? Int ?? -1) (\(overs))"
    }

    /// Returns how many pushes and broadcasts APNs has accepted.
    func readAcceptedCounts() throws(LabError) -> AcceptedCounts {
        let response = try client.requestObject("GET", "/stats")
        guard let byPriority = response["acceptedByPriority"] as? [String: Any],
            let low = byPriority["5"] as? Int, let high = byPriority["10"] as? Int,
            let broadcastCount = response["broadcasts"] as? Int
        else { throw LabError("the simulator's counts have an unexpected form") }
        return AcceptedCounts(tokenPushCount: low + high, priority10PushCount: high, broadcastCount: broadcastCount)
    }

    /// Returns how many channels APNs has created for the app, and how many of them still exist.
    func readChannelCounts() throws(LabError) -> (created: Int, left: Int) {
        let response = try client.requestObject("GET", "/channels?app=\(MatchCommands.app)")
        guard let channels = response["channels"] as? [[String: Any]] else {
            throw LabError("the simulator's channels have an unexpected form")
        }
        return (channels.count, channels.count { $0["deletedAt"] == nil })
    }

    func readSummary() throws(LabError) -> Summary {
        let response = try client.requestObject("GET", "/summary")
        guard let duplicateStartCount = response["duplicateStarts"] as? Int,
            let timestampRegressionCount = response["regressions"] as? Int,
            let effects = response["effects"] as? [String: Any],
            let activities = response["activities"] as? [String: Any], let active = activities["active"] as? Int,
            let onChannels = activities["onChannels"] as? Int,
            let reachedCount = activities["reachedByBroadcasts"] as? Int,
            let received = response["broadcastsReceived"] as? Int,
            let registrationCount = response["registrations"] as? Int
        else { throw LabError("the simulator's summary has an unexpected form") }
        return Summary(
            duplicateStartCount: duplicateStartCount,
            timestampRegressionCount: timestampRegressionCount,
            ignoredOldPushCount: effects["ignoredOld"] as? Int ?? 0,
            undecodablePushCount: effects["undecodable"] as? Int ?? 0,
            activeActivityCount: active,
            subscribedActivityCount: onChannels,
            reachedActivityCount: reachedCount,
            receivedBroadcastCount: received,
            registrationCount: registrationCount
        )
    }

    /// Returns the score that the last follower of each match has on the Lock Screen.
    func readScores(of feed: SeasonFeed) throws(LabError) -> [DemoFigures.Score] {
        var scores: [DemoFigures.Score] = []
        for index in feed.matches.indices {
            let activity = feed.activityIdentifier(match: index, follower: feed.followerCount)
            let response = try client.requestObject("GET", "/activity?app=\(MatchCommands.app)&activity=\(activity)")
            let state = response["contentState"] as? [String: Any] ?? [:]
            scores.append(
                DemoFigures.Score(
                    first: state["firstInnings"] as? String ?? "",
                    second: Self.makeScoreLine(state),
                    result: state["result"] as? String ?? "no result"
                )
            )
        }
        return scores
    }
}
