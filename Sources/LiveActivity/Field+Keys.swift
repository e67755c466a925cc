/// Each function finds the field that a key names in one kind of object; nil for an unknown key. If an object has many
/// fields, a key is compared only with names of its own length.
extension Field {
    @inline(__always)
    static func commandField(forKey key: UnsafeRawBufferPointer) -> Field? {
        switch key.count {
        case 2: equals(key, "id") ? .id : nil
        case 3: equals(key, "aps") ? .aps : equals(key, "app") ? .app : nil
        case 5: equals(key, "token") ? .token : nil
        case 6: equals(key, "device") ? .device : equals(key, "policy") ? .policy : nil
        case 7: equals(key, "payload") ? .payload : equals(key, "channel") ? .channel : nil
        case 8:
            equals(key, "activity")
                ? .activity
                : equals(key, "sequence")
                    ? .sequence
                    : equals(key, "priority") ? .priority : equals(key, "audience") ? .audience : nil
        case 10: equals(key, "expiration") ? .expiration : nil
        case 11: equals(key, "environment") ? .environment : nil
        case 13: equals(key, "alertSequence") ? .alertSequence : nil
        case 14: equals(key, "alertTimestamp") ? .alertTimestamp : nil
        default: nil
        }
    }

    @inline(__always)
    static func apsField(forKey key: UnsafeRawBufferPointer) -> Field? {
        switch key.count {
        case 5: equals(key, "event") ? .event : equals(key, "alert") ? .alert : nil
        case 9: equals(key, "timestamp") ? .timestamp : nil
        case 10: equals(key, "stale-date") ? .staleDate : equals(key, "attributes") ? .attributes : nil
        case 13: equals(key, "content-state") ? .contentState : nil
        case 14: equals(key, "dismissal-date") ? .dismissalDate : nil
        case 15:
            equals(key, "relevance-score")
                ? .relevanceScore : equals(key, "attributes-type") ? .apsAttributesType : nil
        case 16: equals(key, "input-push-token") ? .inputPushToken : nil
        case 18: equals(key, "input-push-channel") ? .inputPushChannel : nil
        default: nil
        }
    }

    @inline(__always)
    static func alertField(forKey key: UnsafeRawBufferPointer) -> Field? {
        switch key.count {
        case 4: equals(key, "body") ? .alertBody : nil
        case 5: equals(key, "title") ? .alertTitle : equals(key, "sound") ? .alertSound : nil
        default: nil
        }
    }

    @inline(__always)
    static func alertTitleField(forKey key: UnsafeRawBufferPointer) -> Field? {
        equals(key, "loc-key") ? .titleKey : equals(key, "loc-args") ? .titleArguments : nil
    }

    @inline(__always)
    static func alertBodyField(forKey key: UnsafeRawBufferPointer) -> Field? {
        equals(key, "loc-key") ? .bodyKey : equals(key, "loc-args") ? .bodyArguments : nil
    }

    @inline(__always)
    static func payloadField(forKey key: UnsafeRawBufferPointer) -> Field? {
        equals(key, "aps") ? .aps : nil
    }

    @inline(__always)
    static func registrationField(forKey key: UnsafeRawBufferPointer) -> Field? {
        switch key.count {
        case 3: equals(key, "app") ? .app : nil
        case 5: equals(key, "token") ? .token : equals(key, "shows") ? .shows : nil
        case 6: equals(key, "device") ? .device : nil
        case 8: equals(key, "activity") ? .activity : equals(key, "channels") ? .channels : nil
        case 9: equals(key, "audiences") ? .audiences : nil
        case 11: equals(key, "environment") ? .environment : nil
        case 12: equals(key, "registeredAt") ? .registeredAt : nil
        case 14: equals(key, "attributesType") ? .attributesType : nil
        case 15: equals(key, "frequentUpdates") ? .frequentUpdates : nil
        default: nil
        }
    }

    @inline(__always)
    static func shownVersionField(forKey key: UnsafeRawBufferPointer) -> Field? {
        equals(key, "timestamp") ? .showsTimestamp : equals(key, "sequence") ? .showsSequence : nil
    }
}
