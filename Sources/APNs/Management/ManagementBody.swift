/// The bodies of the management service's requests and responses, as Apple documents them.
enum ManagementBody {
    /// A channel: the body of a creation, and the response to a read.
    struct Channel: Codable {
        /// 1: APNs keeps the newest message. 0: APNs keeps nothing.
        var storagePolicy: Int
        var pushType: String?

        enum CodingKeys: String, CodingKey {
            case storagePolicy = "message-storage-policy"
            case pushType = "push-type"
        }
    }

    /// All channels of an app in an environment.
    struct ChannelList: Decodable {
        var channels: [String]
    }
}
