package usergroups

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Pages iterates over the pages of a list. Pages requests the next page only if the caller continues the loop:
//
//	for page, err := range usergroups.Pages(ctx, client.Admin.ListUserGroups, &adminv1.ListUserGroupsRequest{}) {
//
// The iteration ends after the first error. Pages does not change the request.
func Pages[Request interface {
	proto.Message
	GetPageToken() string
}, Page interface{ GetNextPageToken() string }](
	ctx context.Context, list func(context.Context, Request) (Page, error), request Request,
) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		next := proto.CloneOf(request)
		fields := next.ProtoReflect()
		pageToken := fields.Descriptor().Fields().ByName("page_token")
		for {
			page, err := list(ctx, next)
			if !yield(page, err) || err != nil || page.GetNextPageToken() == "" {
				return
			}
			fields.Set(pageToken, protoreflect.ValueOfString(page.GetNextPageToken()))
		}
	}
}
