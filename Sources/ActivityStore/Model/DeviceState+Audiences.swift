import LiveActivity

/// The audiences of a device. A device is in an audience while the registration of at least one of its attributes types
/// names the audience.
extension DeviceState {
    var encodedDepartures: [UInt8]? { MemberAudiences.encodeDepartures(formerAudiences, at: leftAtMilliseconds) }

    /// Changes the audiences that the device's registration for an attributes type names, and returns true.
    ///
    /// - Returns: false, without a change, if the device would have too many unconfirmed departures
    ///   (``StoreLimits/unconfirmedDeparturesMax``).
    mutating func changeAudiences(of type: String, to list: [UInt8], at milliseconds: Int64) -> Bool {
        let newAudiences = MemberAudiences.decodeDigests(list)
        let audiencesOfOtherTypes = audiences { $0 != type }
        let previousAudiences = statesByAttributesType[type]?.audiences ?? []
        let newlyLeftAudiences = previousAudiences.filter {
            !newAudiences.contains($0) && !audiencesOfOtherTypes.contains($0) && !formerAudiences.contains($0)
        }
        let stillLeftAudiences = formerAudiences.filter { !newAudiences.contains($0) }
        guard stillLeftAudiences.count + newlyLeftAudiences.count <= StoreLimits.unconfirmedDeparturesMax else {
            return false
        }
        formerAudiences = stillLeftAudiences + newlyLeftAudiences
        if !newlyLeftAudiences.isEmpty { leftAtMilliseconds = max(milliseconds, leftAtMilliseconds + 1) }
        if formerAudiences.isEmpty { leftAtMilliseconds = 0 }
        if !newAudiences.isEmpty || statesByAttributesType[type] != nil {
            statesByAttributesType[type, default: AttributesTypeState()].audiences = newAudiences
        }
        return true
    }

    /// Leaves the audiences that only the registrations of these attributes types name, because the tokens of these
    /// types are dead or unregistered.
    mutating func leaveAudiences(of types: [String], at milliseconds: Int64) {
        let audiencesOfOtherTypes = audiences { !types.contains($0) }
        var newlyLeftAudiences: [UInt64] = []
        for type in types.sorted() {
            newlyLeftAudiences += (statesByAttributesType[type]?.audiences ?? [])
                .filter {
                    !audiencesOfOtherTypes.contains($0) && !formerAudiences.contains($0)
                        && !newlyLeftAudiences.contains($0)
                }
            statesByAttributesType[type]?.audiences = []
        }
        guard !newlyLeftAudiences.isEmpty else { return }
        formerAudiences += newlyLeftAudiences
        leftAtMilliseconds = max(milliseconds, leftAtMilliseconds + 1)
    }

    mutating func confirmDepartures(at milliseconds: Int64) -> (StoreReply<[UInt8]>, ExpiryChange) {
        if leftAtMilliseconds == milliseconds { (formerAudiences, leftAtMilliseconds) = ([], 0) }
        return (StoreReply(.settled), .unchanged)
    }

    private func audiences(ofTypesWhere isIncluded: (String) -> Bool) -> [UInt64] {
        statesByAttributesType.filter { isIncluded($0.key) }.flatMap(\.value.audiences)
    }
}
