import Reactor
import Testbed
import Testing

enum Nghttpd {
    static let path = ForeignProcess.findExecutable(["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"])

    /// - Parameters:
    ///   - documentRoot: the directory that the server serves.
    ///   - log: the file for the server's output.
    static func start(
        _ options: [String],
        port wanted: UInt16? = nil,
        documentRoot: String? = nil,
        log: String = "/dev/null"
    ) throws -> ForeignProcess {
        let files = try TestCredentials.files.get()
        let path = try #require(Nghttpd.path)
        let port = if let wanted { wanted } else { try Listener.findUnusedLoopbackPort() }
        return try ForeignProcess(
            port: port,
            [path, "--address=127.0.0.1", "--htdocs=\(documentRoot ?? files.directory)"] + options
                + [String(port), files.keyFile, files.certificateFile],
            log: log
        )
    }
}

enum Caddy {
    static let path = ForeignProcess.findExecutable(["/usr/bin/caddy", "/usr/local/bin/caddy"])
    static let channel = "dHN0LXNyY2gtY2hubA=="

    /// Starts Caddy. It responds with 410 to tokens that end in `d`, with 400 to tokens that end in `b`, and with
    /// 200 to all others.
    static func start(port wanted: UInt16? = nil) throws -> ForeignProcess {
        let files = try TestCredentials.files.get()
        let path = try #require(Caddy.path)
        let port = if let wanted { wanted } else { try Listener.findUnusedLoopbackPort() }
        let configuration = "\(files.directory)/Caddyfile-\(port)"
        let text = Self.configurationText(port: port, files.certificateFile, files.keyFile)
        try writeFile(configuration, text, mode: 0o600)
        // Caddy stores its last configuration and its state in these two directories. By default they are in
        // the user's home directory.
        return try ForeignProcess(
            port: port,
            [
                "/usr/bin/env", "XDG_CONFIG_HOME=\(files.directory)", "XDG_DATA_HOME=\(files.directory)",
                path, "run", "--adapter", "caddyfile", "--config", configuration,
            ]
        )
    }

    private static func configurationText(port: UInt16, _ certificateFile: String, _ keyFile: String) -> String {
        """
        {
            admin off
            auto_https off
            grace_period 5s
        }
        https://localhost:\(port) {
            bind 127.0.0.1
            tls \(certificateFile) \(keyFile)
            @broadcast {
                method POST
                path /4/broadcasts/apps/com.example.scores
                header apns-channel-id \(channel)
                header apns-push-type liveactivity
                header apns-priority 10
                header apns-expiration 0
                header authorization "bearer *"
                header apns-request-id *
                header !apns-topic
                header !apns-id
            }
            handle @broadcast {
                header apns-request-id {http.request.header.apns-request-id}
                respond 200
            }
        \(managementConfiguration)
            @anyBroadcast path /4/* /1/*
            respond @anyBroadcast `{"reason":"BadPath"}` 404
            @dead path *d
            @refused path *b
            @device path /3/*
            header @device apns-id {http.request.header.apns-id}
            respond @dead `{"reason":"Unregistered","timestamp":1700000000000}` 410
            respond @refused `{"reason":"BadPriority"}` 400
            respond 200
        }
        """
    }

    /// Caddy's configuration for channel management. A documented request gets the documented response. A creation must
    /// also ask APNs to keep the newest message; otherwise it gets 404.
    private static let managementConfiguration = """
            @create {
                method POST
                path /1/apps/com.example.scores/channels
                header authorization "bearer *"
                header content-type application/json
                header !apns-channel-id
                expression `{http.request.body} == "{\\"message-storage-policy\\":1,\\"push-type\\":\\"LiveActivity\\"}"`
            }
            handle @create {
                header apns-channel-id \(channel)
                respond 201
            }
            @read {
                method GET
                path /1/apps/com.example.scores/channels
                header authorization "bearer *"
                header apns-channel-id \(channel)
            }
            respond @read `{"message-storage-policy":1,"push-type":"LiveActivity"}` 200
            @delete {
                method DELETE
                path /1/apps/com.example.scores/channels
                header authorization "bearer *"
                header apns-channel-id \(channel)
            }
            respond @delete 204
            @list {
                method GET
                path /1/apps/com.example.scores/all-channels
                header authorization "bearer *"
                header !apns-channel-id
            }
            respond @list `{"channels":["\(channel)"]}` 200
        """
}
