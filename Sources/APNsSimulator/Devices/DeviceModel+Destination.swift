/// The phone and activity that a push is for.
extension DeviceModel {
    struct PushDestination {
        var app: String
        /// The id of the device; nil for a compact phone.
        var device: String?
        /// The id of the activity; nil: the token is a push-to-start token, and the push started no activity.
        var activity: String?

        func write(to writer: inout SimulatorJSONWriter) {
            writer.member("app", app)
            if let activity { writer.member("activity", activity) }
            if let device { writer.member("device", device) }
        }
    }

    /// Returns the phone and activity of a token, even if the token is no longer valid. Returns nil if no simulated
    /// phone has ever had the token.
    ///
    /// - Parameter effect: the effect of the push that was just delivered to the token; nil: no push was delivered.
    ///   After `started`, the returned activity is the one that the push has started: the phone's youngest one.
    func destination(ofToken token: UnsafeRawBufferPointer, effect: PushEffect?) -> PushDestination? {
        if let (crowd, number, _) = compactPhones.find(token) {
            let definition = compactPhones.crowds[crowd].definition
            return PushDestination(app: definition.app, device: nil, activity: definition.activityIdentifier(number))
        }
        guard let index = tokens.find(token) else { return nil }
        let app = apps[tokens.entries[index].appIndex].bundleId
        switch tokens.entries[index].owner {
        case .activity(let activity):
            let installation = installations[activities[activity].installationIndex]
            return PushDestination(app: app, device: installation.device, activity: activities[activity].identifier)
        case .pushToStart(let installation, _):
            let startedActivity = effect == .started ? installations[installation].activityIndices.last : nil
            return PushDestination(
                app: app,
                device: installations[installation].device,
                activity: startedActivity.map { activities[$0].identifier }
            )
        }
    }
}
